"""What networks are made of: activations, convolution, pooling, normalisation, attention, dropout, losses."""
