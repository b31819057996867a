"""Tables, figures and statements from finished runs."""
