"""The benchmark, the load tools and the demo: programs that use the relay from outside, through its real HTTP API."""
