// The part of the CANN runtime interface that launch.asc calls.
#pragma once
#include <stdint.h>

typedef int aclError;
typedef void* aclrtStream;
enum aclrtDevAttr { ACL_DEV_ATTR_CUBE_CORE_NUM };
enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL };
static const aclError ACL_SUCCESS = 0;

extern "C" {
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value);
aclError aclrtGetLastError(aclrtLastErrLevel level);
const char* aclGetRecentErrMsg();
}
