"""What the web shop is made of: products, goals, and where both come from."""
