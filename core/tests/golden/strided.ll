; strided: no actions
define internal void @"strided.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, 3
  br i1 %more1, label %loop0, label %exit0
loop0:
  %mul2 = mul nsw i64 %r0, 4
  %mul3 = mul nsw i64 %mul2, 2
  %p4 = getelementptr inbounds i32, ptr %data1, i64 %mul3
  %load5 = load i32, ptr %p4, align 4
  %at6 = add nsw i64 %mul3, 2
  %p7 = getelementptr inbounds i32, ptr %data1, i64 %at6
  %load8 = load i32, ptr %p7, align 4
  %at9 = add nsw i64 %mul3, 4
  %p10 = getelementptr inbounds i32, ptr %data1, i64 %at9
  %load11 = load i32, ptr %p10, align 4
  %at12 = add nsw i64 %mul3, 6
  %p13 = getelementptr inbounds i32, ptr %data1, i64 %at12
  %load14 = load i32, ptr %p13, align 4
  %set15 = insertelement <4 x i32> poison, i32 %load5, i64 0
  %set16 = insertelement <4 x i32> %set15, i32 %load8, i64 1
  %set17 = insertelement <4 x i32> %set16, i32 %load11, i64 2
  %set18 = insertelement <4 x i32> %set17, i32 %load14, i64 3
  %mul19 = mul nsw i64 %mul2, -1
  %add20 = add nsw i64 11, %mul19
  %lane21 = extractelement <4 x i32> %set18, i64 0
  %p22 = getelementptr inbounds i32, ptr %data0, i64 %add20
  store i32 %lane21, ptr %p22, align 4
  %lane23 = extractelement <4 x i32> %set18, i64 1
  %at24 = add nsw i64 %add20, -1
  %p25 = getelementptr inbounds i32, ptr %data0, i64 %at24
  store i32 %lane23, ptr %p25, align 4
  %lane26 = extractelement <4 x i32> %set18, i64 2
  %at27 = add nsw i64 %add20, -2
  %p28 = getelementptr inbounds i32, ptr %data0, i64 %at27
  store i32 %lane26, ptr %p28, align 4
  %lane29 = extractelement <4 x i32> %set18, i64 3
  %at30 = add nsw i64 %add20, -3
  %p31 = getelementptr inbounds i32, ptr %data0, i64 %at30
  store i32 %lane29, ptr %p31, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
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
