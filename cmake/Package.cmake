# CPack makes the Debian packages: see scripts/package.
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(debian_packages launcher=ddplaunch runtime=libddp-runtime${abi} dev=libddp-runtime-dev)
foreach(pair IN LISTS debian_packages)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package})
  set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/${package})
  install(FILES ${DDP_PACKAGE_NOTICES} RENAME copyright DESTINATION ${doc_dir} COMPONENT ${component})
  install(FILES ${CMAKE_BINARY_DIR}/debian/changelog.gz DESTINATION ${doc_dir} COMPONENT ${component})
endforeach()

# One package serves all releases of Debian since 11, whose packages of these libraries have other versions.
file(WRITE ${CMAKE_BINARY_DIR}/debian/overrides "ddplaunch: embedded-library *\n")
install(FILES ${CMAKE_BINARY_DIR}/debian/overrides RENAME ddplaunch DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
        COMPONENT launcher)

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # uses SOURCE_DATE_EPOCH if it is set
set(contact "ddplaunch developers <ddplaunch@example.org>")
file(WRITE ${CMAKE_BINARY_DIR}/debian/changelog "ddplaunch (${PROJECT_VERSION}) unstable; urgency=medium

  * CHANGELOG.md in the sources tells what is new.

 -- ${contact}  ${date}
")
execute_process(COMMAND gzip -9nf ${CMAKE_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddplaunch)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own summary
set(CPACK_PACKAGE_CONTACT ${contact})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_DEPENDS "libddp-runtime${abi} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LAUNCHER_DESCRIPTION "launcher for training jobs of several processes
Starts one worker per GPU or CPU share, on one machine or many, with the
environment of PyTorch's torchrun, serves the store where they meet, and
keeps watch: if a worker fails, it ends the others and names the culprit.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
file(WRITE ${CMAKE_BINARY_DIR}/debian/shlibs "libddp_runtime ${abi} libddp-runtime${abi} (>= ${PROJECT_VERSION})\n")
file(WRITE ${CMAKE_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/shlibs ${CMAKE_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "data-parallel training in C++: shared library
Process groups over NCCL and, on CPUs, over shared memory and TCP, with
DistributedDataParallel, a sampler, a loader and checkpoints.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libddp-runtime${abi} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "ddplaunch, cmake, pkgconf | pkg-config")
set(CPACK_DEBIAN_DEV_DESCRIPTION "data-parallel training in C++ or C: headers
Headers for C++20 and C, a static library, and files for CMake and
pkg-config.")
include(CPack)
