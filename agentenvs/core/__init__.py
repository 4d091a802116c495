"""What every environment promises: contract, records, randomness, digests, errors."""
