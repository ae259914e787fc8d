// The library that the fuzz target "exported" loads, with the functions of an exported kernel.
extern "C" int heddle_kernel_main(void* const* args) { return args == nullptr; }
extern "C" int heddle_kernel_prepare(void* const* args) { return args == nullptr; }
