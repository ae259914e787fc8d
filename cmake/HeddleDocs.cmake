# cmake --build build --target docs: the API of the public headers, as HTML in build/api/html. A warning is an error.
find_program(HEDDLE_DOXYGEN doxygen)
mark_as_advanced(HEDDLE_DOXYGEN)
if(HEDDLE_DOXYGEN)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/Doxyfile CONTENT [[
PROJECT_NAME           = Heddle
PROJECT_NUMBER         = @PROJECT_VERSION@
INPUT                  = "@PROJECT_SOURCE_DIR@/include/heddle"
RECURSIVE              = YES
STRIP_FROM_PATH        = "@PROJECT_SOURCE_DIR@/include"
STRIP_FROM_INC_PATH    = "@PROJECT_SOURCE_DIR@/include"
OUTPUT_DIRECTORY       = "@PROJECT_BINARY_DIR@/api"
GENERATE_LATEX         = NO
HAVE_DOT               = NO
QUIET                  = YES
JAVADOC_AUTOBRIEF      = YES
EXTRACT_ALL            = YES
MARKDOWN_SUPPORT       = NO
AUTOLINK_SUPPORT       = NO
EXCLUDE_SYMBOLS        = heddle::internal
# A specialisation of std::hash, which Doxygen 1.9 does not place.
FILTER_PATTERNS        = */ref.h="sed '/std::hash.heddle/,$d'"
MACRO_EXPANSION        = YES
WARN_AS_ERROR          = FAIL_ON_WARNINGS
]] @ONLY)
  add_custom_target(docs COMMAND ${HEDDLE_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                    COMMENT "The API as HTML: ${PROJECT_BINARY_DIR}/api/html/index.html" VERBATIM)
endif()
