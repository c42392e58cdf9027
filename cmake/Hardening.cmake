# Binaries must not contain the path of the build directory.
add_compile_options($<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)

if(DDP_HARDENING)
  # The checks of _FORTIFY_SOURCE need optimisation. Without it, the C library's headers warn.
  add_compile_options(-fstack-protector-strong
                      "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection)
  endif()
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()

# Compiles the target without optimisation, also in the configuration Release.
function(ddp_do_not_optimise target)
  # SHELL: keeps the second -U_FORTIFY_SOURCE, which would be removed as a repeated option.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0> "SHELL:-U_FORTIFY_SOURCE")
endfunction()
