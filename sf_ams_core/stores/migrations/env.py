"""What Alembic runs: online only, in the transaction it was handed."""

from alembic import context

from sf_ams_core.stores.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
