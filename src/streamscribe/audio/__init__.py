"""From what a client sends to 16 kHz samples: PCM and G.711 intake, resampling, bounded file decoding."""
