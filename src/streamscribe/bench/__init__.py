"""Measurements that anyone can repeat: accuracy, gateway cost."""
