"""What trident_py costs, measured side by side with what one would write without it.

    python -m benchmarks             everything, in half an hour; results of one run are in benchmarks/results
    python -m benchmarks --quick     the main ratios, in less than five minutes
    python -m benchmarks.large       one part alone: large, small, memory, growth, rows, storm

Each part measures its competitors in one process, in rounds whose order turns, and gives medians, ratios and spread.
It needs the installed package and nothing else; `benchmarks.storm` also needs Maven, and is left out where that is not.
"""
