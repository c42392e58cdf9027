# One table of what was found, with a way to get what was not.
function(ddp_report name found have_text get_text)
  if(${found})
    message(STATUS "  ${name}${have_text}")
  else()
    message(STATUS "  ${name}no: ${get_text}")
  endif()
endfunction()

set(cuda_found OFF)
if(CUDAToolkit_FOUND AND TARGET CUDA::cudart)
  set(cuda_found ON)
endif()

message(STATUS "ddplaunch ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
message(STATUS "  gloo      yes (backend for CPUs)")
ddp_report("cuda      " cuda_found "yes (${CUDAToolkit_VERSION}, host side of the nccl backend)"
           "install NVIDIA's CUDA toolkit (12 or later), or set CUDAToolkit_ROOT")
ddp_report("nccl      " DDP_HAVE_NCCL "yes (${NCCL_VERSION}, plug-in libddp_nccl.so)"
           "needs CUDA and NCCL: install NCCL beside CUDA, or set NCCL_ROOT (a folder with include/nccl.h)")
ddp_report("libtorch  " DDP_HAVE_TORCH "yes (${Torch_VERSION}, target ddplaunch::torch)"
           "apt-get install libtorch-dev, or set CMAKE_PREFIX_PATH to a libtorch folder")
ddp_report("mpi       " DDP_HAVE_MPI "yes (${MPI_C_VERSION}, plug-in libddp_mpi.so)"
           "apt-get install libopenmpi-dev openmpi-bin")
