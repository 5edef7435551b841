import sys

from benchmarks.storm.run import main

if __name__ == "__main__":
    sys.exit(main())
