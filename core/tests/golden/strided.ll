; strided: no actions
define internal void @"strided.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %loop0
loop0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %mul1 = mul nsw i64 %r0, 4
  %mul2 = mul nsw i64 %mul1, 2
  %p3 = getelementptr inbounds i32, ptr %data1, i64 %mul2
  %load4 = load i32, ptr %p3, align 4
  %at5 = add nsw i64 %mul2, 2
  %p6 = getelementptr inbounds i32, ptr %data1, i64 %at5
  %load7 = load i32, ptr %p6, align 4
  %at8 = add nsw i64 %mul2, 4
  %p9 = getelementptr inbounds i32, ptr %data1, i64 %at8
  %load10 = load i32, ptr %p9, align 4
  %at11 = add nsw i64 %mul2, 6
  %p12 = getelementptr inbounds i32, ptr %data1, i64 %at11
  %load13 = load i32, ptr %p12, align 4
  %set14 = insertelement <4 x i32> poison, i32 %load4, i64 0
  %set15 = insertelement <4 x i32> %set14, i32 %load7, i64 1
  %set16 = insertelement <4 x i32> %set15, i32 %load10, i64 2
  %set17 = insertelement <4 x i32> %set16, i32 %load13, i64 3
  %mul18 = mul nsw i64 %mul1, -1
  %add19 = add nsw i64 11, %mul18
  %lane20 = extractelement <4 x i32> %set17, i64 0
  %p21 = getelementptr inbounds i32, ptr %data0, i64 %add19
  store i32 %lane20, ptr %p21, align 4
  %lane22 = extractelement <4 x i32> %set17, i64 1
  %at23 = add nsw i64 %add19, -1
  %p24 = getelementptr inbounds i32, ptr %data0, i64 %at23
  store i32 %lane22, ptr %p24, align 4
  %lane25 = extractelement <4 x i32> %set17, i64 2
  %at26 = add nsw i64 %add19, -2
  %p27 = getelementptr inbounds i32, ptr %data0, i64 %at26
  store i32 %lane25, ptr %p27, align 4
  %lane28 = extractelement <4 x i32> %set17, i64 3
  %at29 = add nsw i64 %add19, -3
  %p30 = getelementptr inbounds i32, ptr %data0, i64 %at29
  store i32 %lane28, ptr %p30, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  %more31 = icmp slt i64 %next0, 3
  br i1 %more31, label %loop0, label %exit0
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
