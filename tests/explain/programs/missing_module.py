# cause: missing-module
# torch: 1.13 2.13
# ranks: 1
import a_module_that_is_not_installed
