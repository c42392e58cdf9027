# Toolchain file of scripts/package: this machine's compiler, with the C library and the archives of an older Debian in
# DDP_SYSROOT, so that the binaries run on every distribution since then.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DDP_SYSROOT)
set(CMAKE_SYSROOT ${DDP_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DDP_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${DDP_SYSROOT}/usr/lib/x86_64-linux-gnu/pkgconfig:${DDP_SYSROOT}/usr/share/pkgconfig)
# The compiler looks into its own system's folders first. The libstdc++.so in portable/ is the older one and, for what
# that lacks, the compiler's archive, with what that wants of a newer C library.
set(libraries ${DDP_SYSROOT}/usr/lib/x86_64-linux-gnu)
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${libraries} -L${DDP_SYSROOT}/portable -L${libraries}")
endforeach()
