# Every target of this project links ddp_warnings privately, so that users of the library never inherit it.
add_library(ddp_warnings INTERFACE)
target_compile_options(ddp_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Woverloaded-virtual -Wimplicit-fallthrough
    # Members omitted from an initializer have their defaults, as intended.
    -Wno-missing-field-initializers>
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 falsely reports overlapping copies in string concatenation (GCC bug 105329).
  target_compile_options(ddp_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
  # libstdc++ 12's own std::stable_sort uses a function that C++17 deprecates, and newer clangs say so.
  target_compile_options(ddp_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=deprecated-declarations>)
endif()
if(DDP_WARNINGS_AS_ERRORS)
  target_compile_options(ddp_warnings INTERFACE -Werror)
endif()
