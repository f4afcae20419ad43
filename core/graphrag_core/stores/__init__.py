"""Records, which are the truth, and the three search structures derived from them."""
