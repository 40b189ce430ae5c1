// Errors of the twin and the place in the kernel source that they name.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

namespace twin {

// Device calls take it as their last, defaulted argument, so the kernel's own line is known.
struct Where {
    const char* file;
    int line;

    static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};

inline std::string to_string(const Where& where)
{
    const char* slash = std::strrchr(where.file, '/');
    return std::string(slash ? slash + 1 : where.file) + ":" + std::to_string(where.line);
}

class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

[[gnu::cold, gnu::format(printf, 1, 0)]] inline std::string format_list(const char* format, va_list list)
{
    char text[1024];
    std::vsnprintf(text, sizeof text, format, list);
    return text;
}

[[gnu::cold, gnu::format(printf, 1, 2)]] inline std::string format(const char* format, ...)
{
    va_list list;
    va_start(list, format);
    std::string text = format_list(format, list);
    va_end(list);
    return text;
}

}  // namespace twin
