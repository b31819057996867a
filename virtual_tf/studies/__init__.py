"""Many runs: the paper's experiments as data, jobs, grids."""
