"""What trident_py costs, measured side by side with what one would write without it.

    python -m benchmarks             everything, in half an hour; results of one run are in benchmarks/results
    python -m benchmarks --quick     the main ratios, in less than five minutes
    python -m benchmarks.large       one part alone: large, small, memory, growth, rows, storm
    python -m benchmarks sinks kafka two more

Each part measures its competitors side by side, in rounds whose order turns, and gives medians, ratios and spread.
It needs the installed package and nothing else; `benchmarks.storm` also needs Maven, `benchmarks.sinks` has servers
where they are installed, and `benchmarks.kafka` fetches a broker and another Spark; what can't be had is left out.
"""
