; matmul: unroll 3, vectorise 8
define internal void @"matmul.body"(ptr noalias %data0, ptr noalias readonly %data1, ptr noalias readonly %data2, i64 %part, i64 %parts) #0 {
entry:
  %acc0_0 = alloca <8 x float>
  %acc0_1 = alloca <8 x float>
  %acc0_2 = alloca <8 x float>
  %begin1 = mul nsw i64 2, %part
  %end2 = add nsw i64 %begin1, 2
  %first3 = udiv i64 %begin1, %parts
  %last4 = udiv i64 %end2, %parts
  %some5 = icmp slt i64 %first3, %last4
  br i1 %some5, label %loop0, label %exit0
loop0:
  %r0 = phi i64 [ %first3, %entry ], [ %next0, %latch0 ]
  br label %loop1
loop1:
  %r1 = phi i64 [ 0, %loop0 ], [ %next1, %latch1 ]
  store <8 x float> splat (float 0.0), ptr %acc0_0
  store <8 x float> splat (float 0.0), ptr %acc0_1
  store <8 x float> splat (float 0.0), ptr %acc0_2
  %mul6 = mul nsw i64 %r1, 8
  %mul7 = mul nsw i64 %r0, 3
  %add8 = add nsw i64 %mul7, 1
  %add9 = add nsw i64 %mul7, 2
  %mul10 = mul nsw i64 %mul7, 5
  %mul11 = mul nsw i64 %add8, 5
  %mul12 = mul nsw i64 %add9, 5
  %mul13 = mul nsw i64 %mul7, 16
  %mul14 = mul nsw i64 %add8, 16
  %mul15 = mul nsw i64 %add9, 16
  %add16 = add nsw i64 %mul13, %mul6
  %add17 = add nsw i64 %mul14, %mul6
  %add18 = add nsw i64 %mul15, %mul6
  br label %loop4
loop4:
  %r4 = phi i64 [ 0, %loop1 ], [ %next4, %latch4 ]
  %add19 = add nsw i64 %mul10, %r4
  %add20 = add nsw i64 %mul11, %r4
  %add21 = add nsw i64 %mul12, %r4
  %p22 = getelementptr inbounds float, ptr %data1, i64 %add19
  %load23 = load float, ptr %p22, align 4
  %p24 = getelementptr inbounds float, ptr %data1, i64 %add20
  %load25 = load float, ptr %p24, align 4
  %p26 = getelementptr inbounds float, ptr %data1, i64 %add21
  %load27 = load float, ptr %p26, align 4
  %mul28 = mul nsw i64 %r4, 16
  %add29 = add nsw i64 %mul28, %mul6
  %p30 = getelementptr inbounds float, ptr %data2, i64 %add29
  %load31 = load <8 x float>, ptr %p30, align 4
  %first32 = insertelement <8 x float> poison, float %load23, i64 0
  %splat33 = shufflevector <8 x float> %first32, <8 x float> poison, <8 x i32> zeroinitializer
  %mul34 = fmul <8 x float> %splat33, %load31
  %first35 = insertelement <8 x float> poison, float %load25, i64 0
  %splat36 = shufflevector <8 x float> %first35, <8 x float> poison, <8 x i32> zeroinitializer
  %mul37 = fmul <8 x float> %splat36, %load31
  %first38 = insertelement <8 x float> poison, float %load27, i64 0
  %splat39 = shufflevector <8 x float> %first38, <8 x float> poison, <8 x i32> zeroinitializer
  %mul40 = fmul <8 x float> %splat39, %load31
  %old41 = load <8 x float>, ptr %acc0_0
  %add42 = fadd <8 x float> %old41, %mul34
  store <8 x float> %add42, ptr %acc0_0
  %old43 = load <8 x float>, ptr %acc0_1
  %add44 = fadd <8 x float> %old43, %mul37
  store <8 x float> %add44, ptr %acc0_1
  %old45 = load <8 x float>, ptr %acc0_2
  %add46 = fadd <8 x float> %old45, %mul40
  store <8 x float> %add46, ptr %acc0_2
  br label %latch4
latch4:
  %next4 = add nuw nsw i64 %r4, 1
  %more47 = icmp slt i64 %next4, 5
  br i1 %more47, label %loop4, label %exit4
exit4:
  %get48 = load <8 x float>, ptr %acc0_0
  %get49 = load <8 x float>, ptr %acc0_1
  %get50 = load <8 x float>, ptr %acc0_2
  %p51 = getelementptr inbounds float, ptr %data0, i64 %add16
  store <8 x float> %get48, ptr %p51, align 4
  %p52 = getelementptr inbounds float, ptr %data0, i64 %add17
  store <8 x float> %get49, ptr %p52, align 4
  %p53 = getelementptr inbounds float, ptr %data0, i64 %add18
  store <8 x float> %get50, ptr %p53, align 4
  br label %latch1
latch1:
  %next1 = add nuw nsw i64 %r1, 1
  %more54 = icmp slt i64 %next1, 2
  br i1 %more54, label %loop1, label %exit1
exit1:
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more55 = icmp slt i64 %next0, %last4
  br i1 %more55, label %loop0, label %exit0
exit0:
  ret void
}

define void @"matmul"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %at2
  %where0 = getelementptr i64, ptr %variables, i64 0
  %part = load i64, ptr %where0
  %where1 = getelementptr i64, ptr %variables, i64 1
  %parts = load i64, ptr %where1
  call void @"matmul.body"(ptr %data0, ptr %data1, ptr %data2, i64 %part, i64 %parts)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
