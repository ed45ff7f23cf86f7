"""The commands of `oc`, one file per noun. Each adds itself to the application with `add_to`."""
