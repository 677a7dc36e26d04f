"""Examples are tests too; this is for pytest alone, and no part of the package."""

# Given a module whose package has not been imported, pytest imports the package, and with it the
# module, and then runs the module a second time: two classes of each name, and the second ones in
# the registries of guarantees and strategies. Imported before, a module is taken as it is.
import counton.privacy
import counton.strategies  # noqa: F401
