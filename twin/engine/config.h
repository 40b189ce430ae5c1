// Build variant: 1 checks every access and counts vector instructions, 0 leaves that out. Both execute the same calls.
#pragma once

#ifndef QBSA_TWIN_CHECKED
#define QBSA_TWIN_CHECKED 0
#endif

namespace twin {
constexpr bool kChecked = QBSA_TWIN_CHECKED != 0;
}
