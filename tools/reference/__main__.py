"""`python -m tools.reference`: write the generated files and list those that changed."""

import sys

from . import write_all

if __name__ == "__main__":
    sys.stdout.writelines(f"written: {path}\n" for path in write_all())
