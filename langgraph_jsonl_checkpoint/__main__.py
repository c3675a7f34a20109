"""`python -m langgraph_jsonl_checkpoint`."""

import sys

from langgraph_jsonl_checkpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
