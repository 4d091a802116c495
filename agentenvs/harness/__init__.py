"""Runs policies in environments and keeps what happened."""
