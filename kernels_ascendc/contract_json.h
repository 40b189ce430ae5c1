// contract.h and metadata/plan.h as JSON, the form in which Python reads them from a library:
//   {"constants": {name: number}, "quant_modes": {..}, "mask_modes": {..}, "status": {..}, "costs": {..},
//    "records": {name: {"bytes": number, "fields": [[name, "u64" | "i64" | "i32" | "f32"], ..]}}}
// Host code of both libraries.
#pragma once
#include <string>

#include "../metadata/cost.h"
#include "../metadata/plan.h"
#include "contract.h"

namespace qbsa {
namespace json {

inline std::string number(const char* name, int64_t value)
{
    return "\"" + std::string(name) + "\": " + std::to_string(value);
}

inline std::string field(const char* type, const char* name)
{
    return "[\"" + std::string(name) + "\", \"" + type + "\"]";
}

// "name": {a, b, ..} or "name": [a, b, ..]; each item ends with a comma, the last comma goes.
inline std::string list(const char* name, char open, std::string items, char close)
{
    items.pop_back();
    return "\"" + std::string(name) + "\": " + open + items + close;
}

inline std::string record(const char* name, size_t bytes, const std::string& fields)
{
    return "\"" + std::string(name) + "\": {" + number("bytes", static_cast<int64_t>(bytes)) + ", " +
           list("fields", '[', fields, ']') + "},";
}

}  // namespace json

inline const char* contract_json()
{
#define QBSA_JSON_NUMBER(name, value, meaning) json::number(#name, value) + "," +
#define QBSA_JSON_FIELD(type, name, meaning) json::field(#type, #name) + "," +
    static const std::string text =
        "{" +
        json::list("constants", '{',
                   QBSA_CONSTANTS(QBSA_JSON_NUMBER) json::number("kPlanMagic", kPlanMagic) + "," +
                       json::number("kPlanWords", kPlanWords) + "," + json::number("kSplitPlanWords", kSplitPlanWords) +
                       ",",
                   '}') +
        ", " + json::list("quant_modes", '{', QBSA_QUANT_MODES(QBSA_JSON_NUMBER) std::string(), '}') + ", " +
        json::list("mask_modes", '{', QBSA_MASK_MODES(QBSA_JSON_NUMBER) std::string(), '}') + ", " +
        json::list("status", '{', QBSA_STATUS(QBSA_JSON_NUMBER) std::string(), '}') + ", " +
        json::list("costs", '{', QBSA_COSTS(QBSA_JSON_NUMBER) std::string(), '}') + ", " +
        json::list(
            "records", '{',
            json::record("AttentionArgs", sizeof(AttentionArgs), QBSA_ATTENTION_ARGS(QBSA_JSON_FIELD) std::string()) +
                json::record("ScheduleArgs", sizeof(ScheduleArgs), QBSA_SCHEDULE_ARGS(QBSA_JSON_FIELD) std::string()) +
                json::record("PlanHeader", sizeof(PlanHeader), QBSA_PLAN_HEADER(QBSA_JSON_FIELD) std::string()) +
                json::record("CorePlan", sizeof(CorePlan), QBSA_CORE_PLAN(QBSA_JSON_FIELD) std::string()) +
                json::record("SplitTask", sizeof(SplitTask), QBSA_SPLIT_TASK(QBSA_JSON_FIELD) std::string()),
            '}') +
        "}";
#undef QBSA_JSON_FIELD
#undef QBSA_JSON_NUMBER
    return text.c_str();
}

}  // namespace qbsa
