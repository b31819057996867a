"""Numbers of the paper, by the names that --dataset takes."""

# Table 1: clients, size (rounded there), and mean and standard deviation of the size of a client.
TABLE_1 = {
    'femnist': (100, 55_000, 500, 54),
    'mnist': (100, 60_000, 600, 0),
    'pmnist': (100, 60_000, 600, 0),
    'vsn': (23, 68_000, 3_000, 559),
    'har': (30, 15_000, 500, 56),
    'shakespeare': (100, 1_200_000, 13_000, 11_000),
}

# Table 2 (E = 20): the largest accuracies of S and MT over the rounds, in percent.
TABLE_2 = {
    'femnist': {'fedavg': (90.2, 94.3), 'fedprox': (89.9, 94.5), 'virtual': (90.9, 95.7)},
    'femnist-conv': {'fedavg': (95.5, 97.3), 'fedprox': (95.5, 97.0), 'virtual': (97.3, 98.2)},
    'mnist': {'fedavg': (97.6, 96.9), 'fedprox': (97.6, 96.9), 'virtual': (97.8, 97.4)},
    'pmnist': {'fedavg': (48.3, 85.9), 'fedprox': (47.5, 85.6), 'virtual': (42.5, 84.2)},
    'vsn': {'fedavg': (89.6, 96.2), 'fedprox': (89.5, 96.0), 'virtual': (88.8, 96.6)},
    'har': {'fedavg': (94.0, 98.9), 'fedprox': (94.0, 99.4), 'virtual': (94.3, 99.1)},
    'shakespeare': {'fedavg': (48.1, 46.1), 'fedprox': (48.5, 46.4), 'virtual': (48.6, 48.4)},
}

# Table 4 (E = 100).
TABLE_4 = {
    'femnist': {'fedavg': (86.2, 92.7), 'fedprox': (86.6, 92.8), 'virtual': (87.6, 93.2)},
    'femnist-conv': {'fedavg': (95.5, 97.0), 'fedprox': (95.6, 97.3), 'virtual': (97.3, 98.2)},
}

# Table 3: by percent of pruned weights the size of a delta, and the largest accuracies of S and MT in percent.
TABLE_3_SIZE = {0: 158_000, 50: 79_000, 75: 40_000, 90: 16_000}
TABLE_3 = {
    'virtual': {0: (90.9, 95.6), 50: (89.2, 94.3), 75: (90.8, 94.9), 90: (20.3, 48.5)},
    'fedavg_init': {0: (89.4, 86.2), 50: (81.8, 76.3), 75: (80.4, 78.7), 90: (21.0, 25.5)},
}
