; strided: no actions
define internal void @"strided.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul1 = mul nsw i64 %r0, 4
  %mul2 = mul nsw i64 %mul1, 2
  %p3 = getelementptr inbounds i32, ptr %data1, i64 %mul2
  %load4 = load <4 x i32>, ptr %p3, align 4
  %pick5 = shufflevector <4 x i32> %load4, <4 x i32> %load4, <4 x i32> <i32 0, i32 2, i32 2, i32 3>
  %at6 = add nsw i64 %mul2, 3
  %p7 = getelementptr inbounds i32, ptr %data1, i64 %at6
  %load8 = load <4 x i32>, ptr %p7, align 4
  %pick9 = shufflevector <4 x i32> %pick5, <4 x i32> %load8, <4 x i32> <i32 0, i32 1, i32 5, i32 7>
  %mul10 = mul nsw i64 %mul1, -1
  %add11 = add nsw i64 11, %mul10
  %lane12 = extractelement <4 x i32> %pick9, i64 0
  %p13 = getelementptr inbounds i32, ptr %data0, i64 %add11
  store i32 %lane12, ptr %p13, align 4
  %lane14 = extractelement <4 x i32> %pick9, i64 1
  %at15 = add nsw i64 %add11, -1
  %p16 = getelementptr inbounds i32, ptr %data0, i64 %at15
  store i32 %lane14, ptr %p16, align 4
  %lane17 = extractelement <4 x i32> %pick9, i64 2
  %at18 = add nsw i64 %add11, -2
  %p19 = getelementptr inbounds i32, ptr %data0, i64 %at18
  store i32 %lane17, ptr %p19, align 4
  %lane20 = extractelement <4 x i32> %pick9, i64 3
  %at21 = add nsw i64 %add11, -3
  %p22 = getelementptr inbounds i32, ptr %data0, i64 %at21
  store i32 %lane20, ptr %p22, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more23 = icmp slt i64 %next0, 3
  br i1 %more23, label %loop0, label %exit0
exit0:
  ret void
}

define void @"strided"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"strided.body"(ptr %data0, ptr %data1)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
