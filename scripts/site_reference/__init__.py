"""Pages of the documentation site that are made from the code they describe, each time the site is built."""
