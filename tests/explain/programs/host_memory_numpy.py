# cause: host-memory
# torch: 1.13 2.13
# ranks: 1
import numpy

numpy.zeros(1 << 50)
