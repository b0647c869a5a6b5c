"""Digits learned together on Flower."""
