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

# Table 2, FEMNIST with the MLP: the largest accuracies of S and MT in percent, which Table 3 is to be compared with.
TABLE_2_FEMNIST_MLP = {'fedavg': (90.2, 94.3), 'fedprox': (89.9, 94.5), 'virtual': (90.9, 95.7)}

# Table 3: by percent of pruned weights the size of a delta, and the largest accuracies of S and MT in percent.
TABLE_3_SIZE = {0: 158_000, 50: 79_000, 75: 40_000, 90: 16_000}
TABLE_3 = {
    'virtual': {0: (90.9, 95.6), 50: (89.2, 94.3), 75: (90.8, 94.9), 90: (20.3, 48.5)},
    'fedavg_init': {0: (89.4, 86.2), 50: (81.8, 76.3), 75: (80.4, 78.7), 90: (21.0, 25.5)},
}
