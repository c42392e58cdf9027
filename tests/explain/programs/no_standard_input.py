# cause: no-standard-input
# torch: 1.13 2.13
# ranks: 1
input("Continue? ")
