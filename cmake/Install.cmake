# What is installed: the launcher, the runtime with its backends beside it, the public headers, and a package for
# find_package(ddplaunch) that needs nothing but this.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddplaunch)

install(TARGETS ddplaunch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ddp_runtime EXPORT ddplaunchTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(plugin ddp_nccl ddp_mpi)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET ddp_torch)
  # An export of its own: only who asks for the component needs libtorch.
  install(TARGETS ddp_torch EXPORT ddplaunchTorchTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ddplaunchTorchTargets NAMESPACE ddplaunch:: DESTINATION ${package_dir})
endif()
install(DIRECTORY include/ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT ddplaunchTargets NAMESPACE ddplaunch:: DESTINATION ${package_dir})

configure_package_config_file(cmake/ddplaunchConfig.cmake.in ${CMAKE_BINARY_DIR}/ddplaunchConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ddplaunchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ddplaunchConfig.cmake ${CMAKE_BINARY_DIR}/ddplaunchConfigVersion.cmake
        DESTINATION ${package_dir})
