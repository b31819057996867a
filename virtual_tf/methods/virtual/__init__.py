"""The paper in one folder."""
