# Prints a table of the optional parts, with instructions for those that were not found.
function(ddp_report name found have_text get_text)
  if(${found})
    message(STATUS "  ${name}${have_text}")
  else()
    message(STATUS "  ${name}no: ${get_text}")
  endif()
endfunction()

message(STATUS "ddplaunch ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
message(STATUS "  gloo      yes (backend for CPUs, compiled in)")
message(STATUS "  nccl      yes (backend for GPUs; NCCL and the NVIDIA driver are found at run time)")
ddp_report("libtorch  " DDP_HAVE_TORCH "yes (${Torch_VERSION}, target ddplaunch::libtorch)"
           "apt-get install libtorch-dev, or set CMAKE_PREFIX_PATH to a libtorch folder")
ddp_report("mpi       " DDP_HAVE_MPI "yes (${MPI_C_VERSION}, plug-in libddp_mpi.so)"
           "apt-get install libopenmpi-dev openmpi-bin")
