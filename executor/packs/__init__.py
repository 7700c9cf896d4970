"""Packs: manifests shipped for real commands, each tried with the real command."""
