"""A scikit-learn classifier learned together on Flower."""
