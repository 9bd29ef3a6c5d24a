//! Schedules, samplers, guidance, prediction types and torch-compatible noise: host f32 math.
