"""The compiler: recipe -> plan -> engine, what turns a source into an artifact."""
