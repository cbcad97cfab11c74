# Flags that are part of the meaning of the program, not of a preset. No contraction: a*b+c is two
# roundings everywhere unless the code asks for a fused multiply-add by name.
add_library(lucid_build_flags INTERFACE)
target_compile_options(lucid_build_flags INTERFACE -ffp-contract=off)
if(LUCID_DEVELOPER_MODE)
  target_compile_options(lucid_build_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
    # GCC 12 sees overlapping copies in std::string's operator+ that are not there (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
endif()
# The programs parse arguments and print: what takes time is in the libraries, and optimising the
# templates of CLI11 takes a third of their compile time.
add_library(lucid_program_flags INTERFACE)
target_compile_options(lucid_program_flags INTERFACE $<$<CONFIG:Release>:-O1>)
install(TARGETS lucid_build_flags EXPORT lucid-targets)
