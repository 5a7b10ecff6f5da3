"""What is done to any matrix of rows: unit lengths, K-Means, truncated SVD, nearest rows. No graph is known here."""
