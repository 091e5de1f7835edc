"""Stages, flows, pipelines, twins, and running them on all variants of dialogues."""
