if(DDP_SANITIZE)
  add_compile_options(-fsanitize=${DDP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # To check the type of an object, the library opens a pipe. One test leaves it no descriptor for that.
  if(DDP_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${DDP_SANITIZE})
  if(DDP_SANITIZE MATCHES thread)
    # TSan does not see stand-alone fences; this macro makes Asio avoid them.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
