"""The script behind `/usr/local/bin/sudo`. It is started without any search path of its own."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
__import__("sudo.main", fromlist=["main"]).main()
