"""`sudo` for machines whose kernel ignores set-user-ID bits: PID 1 does what a set-user-ID program would.

`client.py` is what `/usr/local/bin/sudo` runs. The other end is `guest/elevation.py`.
"""
