# Every target of ours links ddp_warnings privately; users of the library never inherit it.
add_library(ddp_warnings INTERFACE)
target_compile_options(ddp_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough>)
if(DDP_WARNINGS_AS_ERRORS)
  target_compile_options(ddp_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
