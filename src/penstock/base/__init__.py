"""Ids, error codes and settings. Imports nothing of ours."""
