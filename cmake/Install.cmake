# This file installs three components: the launcher (launcher), the runtime with its backends (runtime), and the public
# headers (dev). The component dev includes a package for find_package(ddplaunch) that needs nothing else.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddplaunch)

if(DDP_BUILD_LAUNCHER)
  install(TARGETS ddplaunch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT launcher)
  # The program itself generates the manual page and the completions.
  if(NOT CMAKE_CROSSCOMPILING)
    set(share_dir ${CMAKE_BINARY_DIR}/share)
    file(MAKE_DIRECTORY ${share_dir})
    add_custom_command(
      OUTPUT ${share_dir}/ddplaunch.1.gz ${share_dir}/ddplaunch ${share_dir}/_ddplaunch ${share_dir}/ddplaunch.fish
      COMMAND ddplaunch --man > ${share_dir}/ddplaunch.1
      COMMAND gzip -9nf ${share_dir}/ddplaunch.1
      COMMAND ddplaunch --completion bash > ${share_dir}/ddplaunch
      COMMAND ddplaunch --completion zsh > ${share_dir}/_ddplaunch
      COMMAND ddplaunch --completion fish > ${share_dir}/ddplaunch.fish
      DEPENDS ddplaunch VERBATIM)
    add_custom_target(ddp_share ALL DEPENDS ${share_dir}/ddplaunch.1.gz)
    install(FILES ${share_dir}/ddplaunch.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT launcher)
    install(FILES ${share_dir}/ddplaunch DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT launcher)
    install(FILES ${share_dir}/_ddplaunch DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT launcher)
    install(FILES ${share_dir}/ddplaunch.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
            COMPONENT launcher)
  endif()
  # Under the name torchrun, ddplaunch is in its compatibility mode. The link is in a separate directory, so that it
  # hides PyTorch's torchrun only if the user wants that (docs/reference/torchrun.md).
  set(torchrun_dir ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch)
  file(RELATIVE_PATH torchrun_target ${CMAKE_INSTALL_FULL_LIBEXECDIR}/ddplaunch ${CMAKE_INSTALL_FULL_BINDIR}/ddplaunch)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/libexec/ddplaunch)
  file(CREATE_LINK ${torchrun_target} ${CMAKE_BINARY_DIR}/libexec/ddplaunch/torchrun SYMBOLIC)
  install(FILES ${CMAKE_BINARY_DIR}/libexec/ddplaunch/torchrun DESTINATION ${torchrun_dir} COMPONENT launcher)

  # `ddplaunch bench` starts ddp_bench. The others read data of workers.
  install(PROGRAMS packaging/slurm/slurm-health-check DESTINATION ${CMAKE_INSTALL_DATADIR}/ddplaunch COMPONENT launcher)
  install(TARGETS ddp_bench ddp_gpu_reader ddp_stack_reader ddp_torch_reader DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch
          COMPONENT launcher)
  install(TARGETS ddp_call_times DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch/ddp_python COMPONENT launcher)
  install(TARGETS ddp_nccl_profiler DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch COMPONENT launcher)
  install(FILES bindings/python/hook/sitecustomize.py bindings/python/hook/ddp_preload.py
          DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch/ddp_python COMPONENT launcher)
  # The hook lets programs import this module, which reports progress for programs without the runtime.
  install(FILES bindings/python/ddp_page.py bindings/python/ddp_state.py DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/ddplaunch/ddp_python/modules
          COMPONENT launcher)
endif()

install(TARGETS ddp_runtime EXPORT ddplaunchTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
if(TARGET ddp_mpi)
  install(TARGETS ddp_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
if(TARGET ddp_runtime_static)
  # This is a separate export, because only users of the component need it.
  install(TARGETS ddp_runtime_static EXPORT ddplaunchStaticTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT ddplaunchStaticTargets NAMESPACE ddplaunch:: DESTINATION ${package_dir} COMPONENT dev)
endif()
if(TARGET ddp_libtorch)
  # This is a separate export, because only users of the component need libtorch.
  install(TARGETS ddp_libtorch EXPORT ddplaunchLibtorchTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
  install(EXPORT ddplaunchLibtorchTargets NAMESPACE ddplaunch:: DESTINATION ${package_dir} COMPONENT dev)
endif()
install(DIRECTORY include/ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(FILES bindings/c/ddp_page.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT ddplaunchTargets NAMESPACE ddplaunch:: DESTINATION ${package_dir} COMPONENT dev)

# The prefix in the .pc file is relative to the file's place, so that the installed tree can be moved.
file(RELATIVE_PATH DDP_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/ddplaunch.pc.in ${CMAKE_BINARY_DIR}/ddplaunch.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ddplaunch.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

configure_package_config_file(cmake/ddplaunchConfig.cmake.in ${CMAKE_BINARY_DIR}/ddplaunchConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ddplaunchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ddplaunchConfig.cmake ${CMAKE_BINARY_DIR}/ddplaunchConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)

# A project also finds this package in the build directory, if the directory `bin` of it is in PATH.
export(EXPORT ddplaunchTargets NAMESPACE ddplaunch:: FILE ${CMAKE_BINARY_DIR}/ddplaunchTargets.cmake)

# This target builds what is installed, and no tests or examples (scripts/install).
add_custom_target(ddp_installed)
foreach(target ddplaunch ddp_share ddp_bench ddp_gpu_reader ddp_stack_reader ddp_torch_reader ddp_call_times
        ddp_nccl_profiler ddp_runtime ddp_runtime_static ddp_mpi ddp_libtorch)
  if(TARGET ${target})
    add_dependencies(ddp_installed ${target})
  endif()
endforeach()

# This target removes the files that the last `cmake --install` of this build directory installed.
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
                  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)

if(DDP_PACKAGE_NOTICES)
  include(Package)
endif()
