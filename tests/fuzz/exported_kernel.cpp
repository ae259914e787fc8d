// What the fuzz target "exported" loads: a library with the functions of an exported kernel.
extern "C" int heddle_kernel_main(void* const* args) { return args == nullptr; }
extern "C" int heddle_kernel_prepare(void* const* args) { return args == nullptr; }
